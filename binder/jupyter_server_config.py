"""Jupyter's server for this course: to open a notebook and save it again writes the same bytes.

As soon as a kernel has started, JupyterLab writes its display name and Python's version into the notebook, and two
minutes later it saves the notebook by itself. So a reader who changes nothing would find changed files, each with the
version of the reader's own machine. Here a notebook keeps what its file says of its kernel, as long as it is the same
kernel.

And a page shows no answer before its question: pykraft.course.asking.open_questions hides outputs, and puts them back.
"""

import json
import warnings


def keep_the_words_about_the_kernel(model, path, contents_manager, **_):
    """Called by the server with each file before it is saved."""
    if model["type"] != "notebook":
        return
    try:
        with open(contents_manager._get_os_path(path), encoding="utf-8") as file:
            before = json.load(file)["metadata"]
    except (OSError, ValueError, KeyError, TypeError):
        return  # a new notebook, or none
    metadata = model["content"]["metadata"]
    for part in ("kernelspec", "language_info"):
        if part in before and before[part].get("name") == metadata.get(part, {}).get("name"):
            metadata[part] = before[part]


# The server's configuration sets each value twice, and warns of a hook that was there before.
warnings.filterwarnings("ignore", message="Overriding existing pre_save_hook")

c = get_config()  # noqa: F821 (the server defines it)
c.ContentsManager.pre_save_hook = keep_the_words_about_the_kernel
c.ServerApp.contents_manager_class = "pykraft.course.asking.open_questions.QuestionsFirst"
