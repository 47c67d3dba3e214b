//go:build !go1.20

package constrained

import "context"

//flow:step
func oldVersion(ctx context.Context) error { return nil }
