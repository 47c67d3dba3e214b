-- kept is added to the time of an item ID that is remembered until Confirm. It is greater than any
-- time.
local kept = 4e15
