package directive

import (
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/internal/cron"
)

// setSchedule validates the text with package cron, which computes the ticks at run time.
func setSchedule(d *Directive, v Text) *Problem {
	ticks, err := cron.Parse(v.Value)
	if bad := (*cron.Error)(nil); errors.As(err, &bad) {
		return &Problem{v.Pos, fmt.Sprintf("%q is no schedule", v.Value), bad.Problem}
	}
	d.Schedule = ticks.String()
	return nil
}
