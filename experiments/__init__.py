"""Research beside the product: papers reproduced, models beside their rivals, studies, generated pages.

Nothing of the product imports it, and nothing of it is kept for importers: what is kept is the commands that
it adds (`commands/`) and the rules of other simulators (`artifact_rules/`), which `part.py` names, and the
pages that it writes.
"""
