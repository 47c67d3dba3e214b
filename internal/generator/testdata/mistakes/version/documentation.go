package documentation

import "context"

//flow:step
func ship(ctx context.Context) error { return nil }
