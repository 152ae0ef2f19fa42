"""``reflexd doctor``: what this machine has of what reflexd needs, line by line, with what to do about the rest.

Every check reads files below a root and the answers of a few commands, and yields findings; none opens a camera,
requests a pin or changes anything. :data:`daemon.doctor.examine.CHECKS` has them all, in the order of the page.
"""
