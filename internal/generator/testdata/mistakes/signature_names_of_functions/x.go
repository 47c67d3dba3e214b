package main

import "context"

//flow:step
func init() {}

//flow:step
func main() {}

//flow:step
func _(ctx context.Context) error { return nil }

//flow:step
func Exported(ctx context.Context) error { return nil }

//flow:step
func _hidden(ctx context.Context) error { return nil }

//flow:step as=Hidden
func _named(ctx context.Context) error { return nil }

//flow:step
func 注文(ctx context.Context) error { return nil }
