package schedule_test

import (
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/schedule"
)

// At the change to summer time, the schedule fires at the moment of the change instead of the
// skipped time.
func ExampleSpec_Next() {
	nightly := schedule.Spec{When: "30 2 * * * Europe/Zurich"}
	tick := time.Date(2027, time.March, 27, 12, 0, 0, 0, time.UTC)
	for range 2 {
		var err error
		if tick, err = nightly.Next(tick); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(tick)
	}
	_, err := schedule.Spec{When: "0 0 31 2 *"}.Next(tick)
	fmt.Println(err)
	// Output:
	// 2027-03-28 03:00:00 +0200 CEST
	// 2027-03-29 02:30:00 +0200 CEST
	// schedule "": "0 0 31 2 *": no year has such a day: change the day or the month
}
