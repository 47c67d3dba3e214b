// Package cron says when a schedule is due: [Parse] reads a text as
// "30 2 * * * Europe/Zurich" or "every 10m", and [Ticks.Next] returns the first tick after
// a time. It has no clock of its own. The generator checks directives with it, and the
// runtime computes ticks with it, so that both accept the same texts.
//
// A cron expression has five fields: minute, hour, day of the month, month and day of the
// week (0 and 7 are Sunday), and after them the time zone, UTC if there is none. A field is *
// or a list of numbers, names and ranges, each with a step if need be: 0-30/10, mon-fri, */5.
// If neither of the two day fields begins with *, a date that fits one of them is
// enough, as cron has always done it.
//
// The clock of a zone is changed on some days. What then counts:
//
//   - A time that the clock leaves out is met at the moment of the change; several such
//     times of one change are one tick.
//   - A time that comes twice is met the first time only.
//   - Where the hour is * or */n neither holds: every hour that there is, is met, twice if
//     it comes twice.
//
// Intervals are counted from 1 January 1970 in UTC, so that their ticks do not
// depend on when anybody began to count.
package cron
