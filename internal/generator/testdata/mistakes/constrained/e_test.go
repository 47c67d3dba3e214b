package constrained

import "context"

//flow:step
func inTest(ctx context.Context) error { return nil }
