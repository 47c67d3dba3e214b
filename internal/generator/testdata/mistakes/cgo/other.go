package cgo

import "context"

//flow:step
func fine(ctx context.Context) error { return nil }
