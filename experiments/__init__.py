"""Research beside the product: papers reproduced, models beside their rivals, studies, generated pages.

Nothing of the product imports it, and nothing of it is kept for importers: what is kept is the commands that
it adds (`commands/`, entry points of the group `lucid.commands`), the rules of other simulators
(`artifact_rules/`, of the group `lucid.rules`) and the pages that it writes.
"""
