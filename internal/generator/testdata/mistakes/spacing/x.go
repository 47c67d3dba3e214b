package spacing

import "context"

// flow:step
func a(ctx context.Context) error { return nil }

// flow:step retries=5
func b(ctx context.Context) error { return nil }

// Flow:step
func c(ctx context.Context) error { return nil }

/*flow:step*/
func d(ctx context.Context) error { return nil }

// flow: workflow nonidempotent
func e(ctx context.Context) error { return nil }

// flow: step by step this is prose.
func f() {
	//Flow:step
	//flow: step
	// flow:stpe
}

//flow:Step
