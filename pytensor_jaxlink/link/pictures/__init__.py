"""An explanation as HTML, as a Graphviz digraph and as a page in the terminal.

All of them are bounded: of large plans the first steps are shown, and how many are left out.
"""
