//flow:package name=stored_names
package stored_names_elsewhere

import "context"

//flow:step
func b(ctx context.Context) error { return nil }
