package directive

import (
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/internal/cron"
)

// setSchedule asks the package that computes ticks at run time whether it can read the text.
func setSchedule(d *Directive, v Text) *Problem {
	ticks, err := cron.Parse(v.Value)
	if bad := (*cron.Error)(nil); errors.As(err, &bad) {
		return &Problem{v.Pos, fmt.Sprintf("%q is no schedule", v.Value), bad.Problem}
	}
	d.Schedule = ticks.String()
	return nil
}
