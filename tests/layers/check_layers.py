#!/usr/bin/python3
"""Dependencies point one way: a layer includes its own headers, those of the layers below it, and the public ones.

The order is that of src/CMakeLists.txt, read from there, so that there is one list. Prints each include that goes the wrong way and fails if there is one."""
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# What stands on top of the layers; each may use all of them, and of the other programs and parts only what is named here.
ABOVE = {"lib": set(), "options": set(), "server": set(), "sluiced": {"options", "server"}, "cli": {"options"},
         "manual": {"options", "sluiced", "cli"}}


def layer_order():
    with open(os.path.join(TOP, "src/CMakeLists.txt")) as f:
        return re.search(r"foreach\(layer ([^)]*)\)", f.read()).group(1).split()


def allowed(folder, layers):
    if folder in layers:
        return set(layers[: layers.index(folder) + 1])
    return set(layers) | {folder} | ABOVE[folder]


def wrong_includes(folder, layers):
    may = allowed(folder, layers)
    every = set(layers) | set(ABOVE)
    for root, _, names in os.walk(os.path.join(TOP, "src", folder)):
        for name in sorted(n for n in names if n.endswith((".c", ".h", ".def"))):
            path = os.path.join(root, name)
            with open(path, encoding="utf-8") as f:
                for number, line in enumerate(f, 1):
                    found = re.match(r'\s*#\s*include\s+"([^"/]+)/', line)
                    if found and found.group(1) in every and found.group(1) not in may:
                        yield f"{os.path.relpath(path, TOP)}:{number}: {folder} may not include {found.group(1)}"


def main():
    layers = layer_order()
    folders = sorted(d for d in os.listdir(os.path.join(TOP, "src")) if os.path.isdir(os.path.join(TOP, "src", d)))
    wrong = [f"src/{d}: in no list of src/CMakeLists.txt or of this check" for d in folders if d not in layers and d not in ABOVE]
    for folder in folders:
        if folder in layers or folder in ABOVE:
            wrong += wrong_includes(folder, layers)
    print("\n".join(wrong) if wrong else f"{len(folders)} folders, every include goes down")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
