"""A command group with a default command: `assay audit RUN` is `assay audit check RUN`, and `assay explorer` alone is
`assay explorer serve`, since a group that shows no help without words has a command that needs none."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class DefaultCommand(TyperGroup):
    """A group whose first command is meant by words that are no command. Its options are completed, too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        own = {name for option in self.get_params(ctx) for name in option.opts}
        bare = not args and not self.no_args_is_help
        if bare or (args and args[0] not in self.commands and args[0] not in own):
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        name, default = next(iter(self.commands.items()))
        inner = default.make_context(name, [], parent=ctx, resilient_parsing=True)
        return [*super().shell_complete(ctx, incomplete), *default.shell_complete(inner, incomplete)]
