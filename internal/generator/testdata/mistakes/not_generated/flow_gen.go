package not_generated

// Charge was written by hand.
func Charge() {}
