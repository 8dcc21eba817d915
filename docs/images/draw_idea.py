"""Draw idea-*.svg of the page "The idea in pictures": python docs/images/draw_idea.py"""

import random
from pathlib import Path

GRASS, CARPET, DOG, CAT = "#8fbf6a", "#d9c3a0", "#7a4a21", "#4a4a4a"
TILE, STEP = 44, 48


def animal(x, y, kind):
    cx, cy = x + TILE / 2, y + TILE / 2 + 2
    if kind == "dog":
        ears = "".join(
            f'<ellipse cx="{cx + s * 12}" cy="{cy + 1}" rx="5" ry="10" fill="#5c3616"/>'
            for s in (-1, 1)
        )
        colour = DOG
    else:
        ears = "".join(
            f'<path d="M{cx + s * 12} {cy - 17} l{-s * 10} 8 l{s * 10} 8 z" fill="{CAT}"/>'
            for s in (-1, 1)
        )
        colour = CAT
    eyes = "".join(f'<circle cx="{cx + s * 4}" cy="{cy - 2}" r="2" fill="white"/>' for s in (-1, 1))
    return f'{ears}<circle cx="{cx}" cy="{cy}" r="12" fill="{colour}"/>{eyes}'


def tiles(photos, x0, y0, columns):
    parts = []
    for i, (kind, ground) in enumerate(photos):
        x, y = x0 + i % columns * STEP, y0 + i // columns * STEP
        fill = GRASS if ground == "grass" else CARPET
        parts.append(f'<rect x="{x}" y="{y}" width="{TILE}" height="{TILE}" rx="4" fill="{fill}"/>')
        parts.append(animal(x, y, kind))
    return "".join(parts)


def text(x, y, words):
    return f'<text x="{x}" y="{y}" font-family="sans-serif" font-size="15">{words}</text>'


def write(name, width, height, *parts):
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">'
    )
    paper = f'<rect width="{width}" height="{height}" fill="white"/>'
    target = Path(__file__).with_name(name)
    target.write_text(head + paper + "".join(parts) + "</svg>\n", encoding="utf-8")


def photos(dogs_on_grass, dogs_on_carpet, cats_on_grass, cats_on_carpet):
    found = [("dog", "grass")] * dogs_on_grass + [("dog", "carpet")] * dogs_on_carpet
    return found + [("cat", "grass")] * cats_on_grass + [("cat", "carpet")] * cats_on_carpet


def shuffled(found):
    return random.Random(3).sample(found, len(found))


world, collection = photos(8, 8, 8, 8), photos(12, 2, 3, 13)[:30]
write("idea-world.svg", 800, 250,
      text(10, 22, "The world"), tiles(shuffled(world), 10, 36, 8),
      text(410, 22, "The collection"), tiles(shuffled(collection), 410, 36, 8))  # fmt: skip
grass = [p for p in collection if p[1] == "grass"]
carpet = [p for p in collection if p[1] == "carpet"]
write("idea-kmeans.svg", 800, 190,
      text(10, 22, "k-means, cluster 1"), tiles(grass, 10, 36, 8),
      text(410, 22, "k-means, cluster 2"), tiles(carpet, 410, 36, 8))  # fmt: skip
dogs = [p for p in collection if p[0] == "dog"]
cats = [p for p in collection if p[0] == "cat"]
write("idea-unskew.svg", 800, 190,
      text(10, 22, "unskew, group 1"), tiles(dogs, 10, 36, 8),
      text(410, 22, "unskew, group 2"), tiles(cats, 410, 36, 8))  # fmt: skip
