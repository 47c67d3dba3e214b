// Package cron computes the times of a schedule. [Parse] parses a text such as "every 10m" or "30 2
// * * * Europe/Zurich", and [Ticks.Next] returns the first tick after a time. The package has no
// clock. The generator validates directives with it, and the runtime computes ticks with it, so
// that both accept the same texts.
//
// A cron expression has five fields: minute, hour, day of the month, month and day of the week (0
// and 7 are Sunday). A time zone may follow; the default is UTC. A field is * or a list of numbers,
// names and ranges, each with an optional step, such as 0-30/10, mon-fri or */5. If neither of the
// two day fields begins with *, a date has to match only one of them, as in other implementations
// of cron.
//
// Clock changes are handled as follows:
//
//   - A time that the clock skips occurs at the moment of the change. Several such times of one
//     change are one tick.
//   - A time that occurs twice is a tick only the first time.
//   - If the hour is * or */n, the rules above do not apply. Every existing hour is a tick, and an
//     hour that occurs twice is two ticks.
//
// Intervals are counted from 1 January 1970 in UTC, so that their ticks do not depend on the start
// of the schedule.
package cron
