-- View stores a view, or replaces or removes the view of that name.
--
-- KEYS  1 the views
-- ARGV  1 the name  2 the view, '' to remove it  3 maximum number of views
--
-- Returns {'ok'}; {'none'} if there was no view to remove; {'full'} if the maximum number of other
-- views exists, and nothing was written.
--
-- Atomic, because views that are saved at the same time must not exceed the maximum together.
--
-- Parts: none

local key, name, view = KEYS[1], ARGV[1], ARGV[2]
if view == '' then
  return {redis.call('HDEL', key, name) == 1 and 'ok' or 'none'}
end
if redis.call('HEXISTS', key, name) == 0 and redis.call('HLEN', key) >= tonumber(ARGV[3]) then
  return {'full'}
end
redis.call('HSET', key, name, view)
return {'ok'}
