"""Parts of clusters: what components cost, draw and how often they fail, with sources, and bills made of them."""
