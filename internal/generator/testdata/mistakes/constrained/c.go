//go:build never

package constrained

import "context"

//flow:step
func never(ctx context.Context) error { return nil }
