"""Formulas as MathML, which browsers render without a script: pages work offline."""

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml


def _inline(translator, node):
    translator.body.append(tex2mathml(node.astext(), as_block=False))
    raise SkipNode


def _block(translator, node):
    formula = tex2mathml(node.astext(), as_block=True)
    translator.body.append(f'<div class="math-block">{formula}</div>')
    raise SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
