// Package quiet keeps bubbletea from asking the terminal for its colours in every command. Version 1 does so when it is
// initialised, whether a program is drawn or not: with a terminal that does not answer each command
// would take five seconds longer, and what one has typed meanwhile would be lost.
//
// It does not ask a terminal that is called dumb. Packages are initialised in the order of their import paths, as far as
// what they import is: this one imports next to nothing, and so comes before termenv, on which bubbletea depends. Who imports
// both calls Restore when it is initialised.
package quiet

import "os"

// before is the name of the terminal.
var before, named = os.LookupEnv("TERM")

func init() { //nolint:gochecknoinits // see the package
	_ = os.Setenv("TERM", "dumb")
}

// Restore gives the terminal its name back.
func Restore() {
	if !named {
		_ = os.Unsetenv("TERM")
		return
	}
	_ = os.Setenv("TERM", before)
}
