package not_generated

import "context"

//flow:step
func charge(ctx context.Context) error { return nil }
