#!/usr/bin/python3
"""Every relative link of every Markdown file leads somewhere, and docs/README.md, the reading order, names every page."""
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def pages():
    for root, folders, names in os.walk(TOP):
        folders[:] = [f for f in folders if not f.startswith((".", "build"))]
        yield from (os.path.join(root, name) for name in names if name.endswith(".md"))


def dead_links(path):
    with open(path, encoding="utf-8") as f:
        text = re.sub(r"```.*?```", "", f.read(), flags=re.S)
    for target in re.findall(r"\]\(([^)#]+)", text):
        if "://" not in target and not os.path.exists(os.path.join(os.path.dirname(path), target)):
            yield f"{os.path.relpath(path, TOP)}: {target} is not there"


def main():
    wrong = [line for path in sorted(pages()) for line in dead_links(path)]
    with open(os.path.join(TOP, "docs/README.md"), encoding="utf-8") as f:
        order = f.read()
    wrong += [f"docs/README.md does not name {name}" for name in sorted(os.listdir(os.path.join(TOP, "docs")))
              if name != "README.md" and f"]({name})" not in order]
    print("\n".join(wrong) if wrong else "every link leads somewhere")
    return 1 if wrong else 0


sys.exit(main())
