-- kept is added to the time of an ID that is remembered until Confirm. No age reaches this value.
local kept = 4e15
