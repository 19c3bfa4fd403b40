# Two commands on a fresh machine: `make lab` to work in JupyterLab, `make demo` to see notebook 00 in the terminal.
# Needed: Python 3.11 or newer with pip and venv, and make. PYTHON names the interpreter that a new .venv is made with.

PYTHON ?= python3
NOTEBOOK := notebooks/00_sixty_seconds.ipynb
RUN := .venv/bin/python

# A browser can be opened under X or Wayland, on a Mac, or with the one that BROWSER names. Elsewhere Jupyter would
# take a text browser if it finds one, and the terminal with it.
SCREEN = $(DISPLAY)$(WAYLAND_DISPLAY)$(BROWSER)$(filter Darwin,$(shell uname))
# In a container one often is root, and Jupyter refuses to serve root without being told.
AS_ROOT = $(if $(filter 0,$(shell id -u)),--allow-root)
# What is left is the address, and what goes wrong.
QUIET := --ServerApp.log_level=ERROR --LabApp.log_level=ERROR

.DEFAULT_GOAL := help
.PHONY: help setup lab demo test quick judges soak bench clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' Makefile

setup:
	@PYTHON='$(PYTHON)' .ci/python .ci/prepare.py

# The signature tells JupyterLab that it may show the committed pictures; without it there is only their text.
lab: setup  ## set up .venv, then open JupyterLab on notebook 00 (or print its address)
	@$(RUN) -m nbformat.sign notebooks/*.ipynb labs/*/lab.ipynb > /dev/null
	@echo "Starting JupyterLab on $(NOTEBOOK); Ctrl-C, twice, ends it"
	@$(RUN) -m jupyterlab --LabApp.default_url=/lab/tree/$(NOTEBOOK) $(QUIET) $(if $(SCREEN),,--no-browser) $(AS_ROOT)

demo: setup  ## run notebook 00 in the terminal; the executed page is written into build/
	@$(RUN) -m pykraft demo $(NOTEBOOK)

quick: setup  ## lint, types, layers, unit and property tests, but for the costliest: under 90 seconds
	@$(RUN) tests/run.py quick

test:  ## everything: under 25 minutes on two cores
	@PYTHON='$(PYTHON)' .ci/python .ci/prepare.py --archive-later
	@$(RUN) tests/run.py full

judges: setup  ## Kafka's own client tests and other libraries, a row for each file: about two hours; needs Java, Maven, Node.js, Go
	@$(RUN) tests/run.py judges

soak: setup  ## the long runs, for hours: thousands of simulated histories
	@$(RUN) tests/run.py soak

bench: setup  ## measure, up to two hours; rows are printed and written to build/bench.json
	@$(RUN) tests/run.py bench

clean:  ## remove build/ and the caches; .venv stays
	@rm -rf build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find pykraft tests labs notebooks datasets -name __pycache__ -type d -prune -exec rm -rf {} +
