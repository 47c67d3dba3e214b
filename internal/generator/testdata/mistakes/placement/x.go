package placement

import "context"

//flow:error
import _ "errors"

//flow:step
type order struct{}

//flow:workflow
const limit = 5

//flow:step

func detached(ctx context.Context) error { return nil }

//flow:step
// is interrupted by a comment

/* that is another */
func interrupted(ctx context.Context) error { return nil }

func inside(ctx context.Context) error {
	//flow:step
	return nil
}

type fields struct {
	//flow:error
	Name string
}

func behind(ctx context.Context) error { return nil } //flow:step

//flow:package name=x
func packaged(ctx context.Context) error { return nil }

//flow:error
func failing(ctx context.Context) error { return nil }

//flow:step
var variable = 5

//flow:error
var (
	errA error
	errB error
)

//flow:step
