// Package orders has a client that would lie in a directory of others.
//
//flow:package name=clientdirectory client=../wire
package orders

import "context"

//flow:step
func charge(ctx context.Context) error { return nil }
