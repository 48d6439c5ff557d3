#!/usr/bin/python3
"""What it takes to load a large policy: CPU time and memory of `sluice policy check`, at its most, for policies of many limits and for keys_files of many keys.

    bench/policy_load.py [--bin build/bin] [--rounds 3] [--json]

No bounds: who loads 100,000 limits should know what it takes."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEAD = "version: 1\ndefaults: {on_store_failure: local}\n"


def limits(folder, n):
    with open(os.path.join(folder, "policy.yaml"), "w") as f:
        f.write(HEAD + "limits:\n")
        f.writelines(f"  - {{name: limit-{i}, key: acct_{i}, rate: {i + 1}/m, burst: 100}}\n" for i in range(n))


def keys(folder, n):
    with open(os.path.join(folder, "policy.yaml"), "w") as f:
        f.write(HEAD + "tiers: {default: t0, keys_file: keys.csv}\nlimits:\n" + "".join(f"  - {{name: t{i}, tier: t{i}, rate: {i + 1}/m}}\n" for i in range(8)))
    with open(os.path.join(folder, "keys.csv"), "w") as f:
        f.writelines(f"acct_{i},t{i % 8}\n" for i in range(n))


def run(args, folder):
    """(CPU seconds, peak MB) of one load."""
    child = subprocess.Popen([os.path.join(args.bin, "sluice"), "policy", "check", os.path.join(folder, "policy.yaml")], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit("bench: the policy is not valid")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(TOP, "build/bin"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for what, make, n in (("limits", limits, 100), ("limits", limits, 10000), ("limits", limits, 100000), ("keys in a keys_file", keys, 1000000)):
            make(folder, n)
            runs = [run(args, folder) for _ in range(args.rounds)]
            found.append({"what": what, "n": n, "cpuSeconds": statistics.median(cpu for cpu, _ in runs), "peakMb": max(mb for _, mb in runs)})
    if args.json:
        print(json.dumps(found))
    else:
        for row in found:
            print(f"{row['n']:>9,} {row['what']:20} {row['cpuSeconds'] * 1000:8.0f} ms of CPU, {row['peakMb']:6.0f} MB at most")
    return 0


sys.exit(main())
