package version

import "context"

//flow:step
func fine(ctx context.Context) error { return nil }
