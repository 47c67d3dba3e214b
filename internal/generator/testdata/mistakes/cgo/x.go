package cgo

import "C"

import "context"

//flow:step
func charge(ctx context.Context) error { return nil }
