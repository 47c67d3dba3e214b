package load

import (
	"context"
	"errors"
	"os/exec"
	"strings"
)

// Requires reports whether p can import packages of a module. A package that imports one
// already can; else the go command is asked for the module, not for a package, because a
// vendor directory has no packages that nobody imports yet. Where the go command does not
// run, or there are no modules, the compiler will say what is missing.
func (p *Package) Requires(ctx context.Context, module string) bool {
	if p.module == "" || p.module == module {
		return true
	}
	for path, imported := range p.imports {
		if strings.HasPrefix(path, module+"/") && len(imported.Errors) == 0 {
			return true
		}
	}
	cmd := exec.CommandContext(ctx, "go", "list", "-m", module)
	cmd.Dir = p.Dir
	_, err := cmd.Output()
	_, refused := errors.AsType[*exec.ExitError](err)
	return !refused || ctx.Err() != nil
}
