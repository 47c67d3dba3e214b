// Package quiet prevents bubbletea from querying the colors of the terminal in every command.
// Version 1 does so during its initialization, even if no program is drawn: with a terminal that
// does not respond, each command would take five seconds longer and lose typed input.
//
// It does not query a terminal of type dumb. Packages are initialized in the order of their import
// paths as far as their dependencies permit. This package has few dependencies, so it precedes
// termenv, on which bubbletea depends. A package that imports both must call Restore in its init
// function.
package quiet

import "os"

// before is the type of the terminal.
var before, named = os.LookupEnv("TERM")

func init() { //nolint:gochecknoinits // see the package
	_ = os.Setenv("TERM", "dumb")
}

// Restore restores the type of the terminal.
func Restore() {
	if !named {
		_ = os.Unsetenv("TERM")
		return
	}
	_ = os.Setenv("TERM", before)
}
