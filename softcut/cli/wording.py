"""Messages of the library in the words of the command line: ``missing='zero'`` is ``--missing 'zero'`` there."""

from __future__ import annotations

import re

__all__ = ["with_options"]

# Arguments of Python functions and the options that set them.
_OPTIONS = {
    "comments": "--comments",
    "delimiter": "--delimiter",
    "device": "--device",
    "features": "--features",
    "format": "--format",
    "ids": "--ids",
    "k": "--segments",
    "max_bytes": "--max-bytes",
    "max_iter": "--max-iter",
    "max_pixels": "--max-pixels",
    "method": "--method",
    "missing": "--missing",
    "n_clusters": "--clusters",
    "n_init": "--n-init",
    "objective": "--objective",
    "one_hot": "--one-hot",
    "parts": "--parts",
    "preset": "--preset",
    "random_state": "--seed",
    "regions": "--regions",
    "source": "--source",
    "target": "--target",
    "weight": "--weight",
}
# Arguments whose option is a flag, or is written in another way.
_PHRASES = {
    "header=True": "--header",
    "header=False": "--no-header",
    "weighted=True": "--weighted",
    "weighted=False": "--unweighted",
    "directed=False": "--undirected",
    "self_loops='keep'": "--keep-self-loops",
    "one_hot=True": "--one-hot '*'",
    "ids=False": "--ids none",
    "as X (--features on the command line)": "with --features",
}
_LIMIT = re.compile(r"raise softcut\.clustering\.arguments\.LIMITS\['(\w+)'\] first")
_names = "|".join(_OPTIONS)
# "name=value", and a name that is what the sentence is about: "missing is 'x'", "pass max_bytes with ...".
_GIVEN = re.compile(rf"(?<![\w'\"-])({_names})=(?:\[('[^']*')\])?(?=(.?))")
_SUBJECT = re.compile(rf"(?:(?<=^)|(?<=pass ))({_names})(?= (?:is|must|has|names|with) )")


def with_options(sentence: str) -> str:
    """The same sentence with the options of the command line in place of arguments.

    >>> with_options("fill it in, or pass missing='zero', 'mean' or 'drop'.")
    "fill it in, or pass --missing 'zero', 'mean' or 'drop'."
    >>> with_options("n_init is -1: pass one_hot=['city'] or weighted=False.")
    "--n-init is -1: pass --one-hot 'city' or --unweighted."
    """
    for argument, option in _PHRASES.items():
        sentence = sentence.replace(argument, option)
    sentence = _GIVEN.sub(_option, sentence)
    sentence = _SUBJECT.sub(lambda found: _OPTIONS[found[1]], sentence)
    return _LIMIT.sub(r"add --limit \1=NUMBER", sentence)


def _option(found: re.Match[str]) -> str:
    """The option, its value out of brackets, and a space where a value follows."""
    space = " " if found[2] or found[3].strip(" ,.:;)") else ""
    return _OPTIONS[found[1]] + space + (found[2] or "")
