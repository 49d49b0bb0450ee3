"""Research beside the product.

Papers reproduced, studies, generators of documentation pages. Nothing of the product imports it.
"""
