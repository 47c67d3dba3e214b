package load

import (
	"context"
	"errors"
	"os/exec"
	"strings"
)

// Requires reports whether p can import packages of a module. If p does not already import one,
// Requires queries the go command for the module rather than a package, because a vendor directory
// contains only imported packages. It returns true if the go command does not run or there are no
// modules; the compiler then reports the missing import.
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
