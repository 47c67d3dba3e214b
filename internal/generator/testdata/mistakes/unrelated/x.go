package unrelated

import "context"

// Only mistakes of flowgen are reported, not those of Go.
func broken() { return undefinedThing + 5 }

var unusedButWrong int = "text"

//flow:step
func charge(ctx context.Context) error { return alsoUndefined(ctx) }
