//go:build go1.99

package version

import "context"

//flow:step
func charge(ctx context.Context) error { return nil }
