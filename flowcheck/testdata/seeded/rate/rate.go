// Package rate knows what a thing costs today.
package rate

import "time"

// Of returns the rate of a country, with the discount of the day.
func Of(country string) int {
	if time.Now().Weekday() == time.Sunday {
		return 5
	}
	return len(country)
}
