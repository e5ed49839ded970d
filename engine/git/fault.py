"""Say to the task that makes a combination red what happened, and with whom."""

from __future__ import annotations

import msgspec

from engine.git.cargo import Cargo, Checked, Returned
from engine.git.words import shortened


class Fault(msgspec.Struct, frozen=True):
    """The member `at` of a chain makes it red: what is merged before it is green.

    `others` are members before it, with one of whom it is red; empty: it is red by itself. Unless that is `proven`,
    they are all that came before, and it may be red by itself as well.
    """

    at: int
    member: Cargo
    checked: Checked
    others: tuple[Cargo, ...]
    proven: bool

    @property
    def returned(self) -> Returned:
        """What the member's task hears."""
        names = [other.task_id for other in self.others]
        few = shortened(names)
        where, what = " on the newest tip", "merged onto the newest tip it makes the verification fail"
        if names and self.proven:
            where = f" together with {'one of ' * (len(names) > 1)}{few}"
            what = f"{where.strip()} it makes the verification fail"
        elif names:
            where = f" on top of {few}"
            what = f"merged{where} it makes the verification fail, which passes without it"
        onto = "the newest tip" if not names else "a tree that holds what it was merged onto"
        return Returned(
            self.member.task_id,
            f"breaks the check{where}: {self.checked.reason}",
            f"Your change was verified before, but {what}. You now work on {onto}.\n\n{self.checked.output}",
            names[0] if self.proven and len(names) == 1 else "",
            output=self.checked.output,
        )
