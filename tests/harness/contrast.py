"""Whether a page's texts can be read: the contrast that the browser computes, in JupyterLab's light and dark theme.

A text's colour is laid over all that is below it, with its opacity and that of the elements around it. A widget knows
the theme by what JupyterLab writes on the page's body.
"""

from __future__ import annotations

from tests.harness.browser import Browser

LEAST_CONTRAST = 4.5
"""What WCAG 2 asks for of small texts (AA)."""
LEAST_TEXTS = 20
COLOURS = """
const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
const parts = colour => {
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data].map(part => part / 255);
};
const over = ([r, g, b, a], below) => [r, g, b].map((part, i) => a * part + (1 - a) * below[i]);
const above = (e, all = []) => { for (; e; e = e.parentElement) all.unshift(e); return all; };
const filled = e => parts(getComputedStyle(e).backgroundColor);
const ground = e => above(e).reduce((below, each) => over(filled(each), below), [1, 1, 1]);
const light = rgb => {
  const [r, g, b] = rgb.map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
};
const contrast = (e, colour) => {
  const seen = above(e).reduce((share, each) => share * getComputedStyle(each).opacity, 1), below = ground(e);
  const [r, g, b, a] = parts(colour), both = [light(over([r, g, b, a * seen], below)), light(below)];
  return Math.max(...both) / Math.min(...both);
};
const found = [], root = document.querySelector(arguments[0]);
for (const e of root.querySelectorAll("*")) {
  const says = [...e.childNodes].some(node => node.nodeType === 3 && node.data.trim());
  if (says && e.checkVisibility() && !e.closest("title, desc"))
    found.push([e.textContent, contrast(e, getComputedStyle(e)[e instanceof SVGElement ? "fill" : "color"])]);
}
for (const input of root.querySelectorAll("input")) {
  found.push(["(what is typed)", contrast(input, getComputedStyle(input).color)]);
  found.push([input.placeholder, contrast(input, getComputedStyle(input, "::placeholder").color)]);
}
return found;
"""
"""Each text below an element, with the contrast of its colour to the one below it (WCAG 2)."""


def faint_texts(window: Browser, selector: str) -> list[str]:
    """The texts below an element that have too little contrast in one of the themes."""
    found = []
    for theme in ("dark", "light"):
        window.ask("document.body.dataset.jpThemeLight = arguments[0]", str(theme == "light").lower())
        texts = window.ask(COLOURS, selector)
        assert len(texts) >= LEAST_TEXTS, texts
        found += [f"{theme}: {text!r}: {contrast:.1f}" for text, contrast in texts if contrast < LEAST_CONTRAST]
    return found
