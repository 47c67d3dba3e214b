package key_comment

import "context"

//flow:step key="id // x"
func a(ctx context.Context, id string) error { return nil }

//flow:step key="id /* x */"
func b(ctx context.Context, id string) error { return nil }

//flow:step key=`"//"+id`
func c(ctx context.Context, id string) error { return nil }
