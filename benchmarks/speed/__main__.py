"""python -m benchmarks.speed NAME [--quick]: print the rows of one benchmark as JSON."""

import json
import sys

from . import QUESTIONS, question


def main(words: list[str]) -> int:
    names = [word for word in words if word != "--quick"]
    if len(names) != 1 or names[0] not in QUESTIONS:
        print(f"one of: {', '.join(QUESTIONS)} (and --quick)", file=sys.stderr)
        return 2
    print(json.dumps(question(names[0])("--quick" in words)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
