"""The player: a history under a virtual clock, played on an axis of milliseconds, and what a reader does to it.

`film_data.py` makes plain data of a history, and `player.js` draws it, on any page. `player.py` is the widget of a
notebook, `page.py` a page of its own. What a reader does is an act (`acts.py`); a scene with some acts is a link
(`pykraft.story.links`).
"""
