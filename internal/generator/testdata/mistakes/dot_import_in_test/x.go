package dot_import_in_test

import "context"

//flow:step
func replace(ctx context.Context) error { return nil }

//flow:step
func contains(ctx context.Context) error { return nil }
