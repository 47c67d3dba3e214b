// Package quiet prevents bubbletea from querying the colors of the terminal in every command.
// Version 1 of bubbletea sends the query during its initialization, even in commands without a
// screen. If the terminal does not respond, each command takes five seconds longer and loses typed
// input.
//
// bubbletea does not query a terminal of type dumb, so this package sets that type. Packages are
// initialized in the order of their import paths as far as their dependencies permit. This package
// has few dependencies, so it is initialized before termenv, on which bubbletea depends. A package
// that imports both must call Restore in its init function.
package quiet

import "os"

// before is the type of the terminal at the start of the process. named reports whether it was set.
var before, named = os.LookupEnv("TERM")

func init() { //nolint:gochecknoinits // see the package
	_ = os.Setenv("TERM", "dumb")
}

// Restore restores the original type of the terminal.
func Restore() {
	if !named {
		_ = os.Unsetenv("TERM")
		return
	}
	_ = os.Setenv("TERM", before)
}
