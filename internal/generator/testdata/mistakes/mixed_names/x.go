package mixed_names

import "context"

//flow:step
func charge(ctx context.Context) error { return nil }
