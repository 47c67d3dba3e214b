package constrained

import "context"

//flow:step
func byName(ctx context.Context) error { return nil }
