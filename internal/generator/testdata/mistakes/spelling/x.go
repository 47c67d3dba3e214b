package spelling

import "context"

//flow:stpe
func a(ctx context.Context) error { return nil }

//flow:step retires=5
func b(ctx context.Context) error { return nil }

//flow:step retention=5h
func c(ctx context.Context) error { return nil }

//flow:step frobnicate=yes
func d(ctx context.Context) error { return nil }

//flow:banana
func e(ctx context.Context) error { return nil }

//flow:step:retries=5
func f(ctx context.Context) error { return nil }

//flow:0
func g(ctx context.Context) error { return nil }

// h says "//flow:stepp" in a string, which is no directive.
func h() string { return "//flow:stepp" }
