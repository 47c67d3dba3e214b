-- Entry writes an entry, or removes it, and removes those that its space keeps no longer.
--
-- KEYS  1 the entries
-- ARGV  1 the space  2 the key  3 the value, '' to remove the entry  4 '1' if the value must be
--       the one that was seen  5 the value as it was seen, '' if there was none
--       6 how many the space has at most, '0': any number  7 how many it keeps, '0': all
--       8 the least key that it keeps, '': any  9 how many are removed at most, for either reason
--
-- Returns {'ok'}; or, if nothing was written: {'changed'}: the value is another one; {'none'}: there
-- is no entry to remove; {'full'}: there are as many of other keys as there may be.
--
-- Atomic, because the value is compared and the entries are counted in the action that writes. A
-- member is the space, the key and the value, with a zero byte between them; no key is there twice.
--
-- Parts: none

local key, value = KEYS[1], ARGV[3]
local first, last = '[' .. ARGV[1] .. '\0', '(' .. ARGV[1] .. '\1' -- of the space
local begin = ARGV[1] .. '\0' .. ARGV[2]
local found = redis.call('ZRANGEBYLEX', key, '[' .. begin .. '\0', '(' .. begin .. '\1')
if ARGV[4] == '1' and (found[1] and string.sub(found[1], #begin + 2) or '') ~= ARGV[5] then
  return {'changed'}
end
if not found[1] then
  if value == '' then
    return {'none'}
  end
  local most = tonumber(ARGV[6])
  if most > 0 and redis.call('ZLEXCOUNT', key, first, last) >= most then
    return {'full'}
  end
else
  redis.call('ZREMRANGEBYLEX', key, '[' .. begin .. '\0', '(' .. begin .. '\1')
end
if value ~= '' then
  redis.call('ZADD', key, '0', begin .. '\0' .. value)
end

local function trim(below, many)
  local gone = redis.call('ZRANGEBYLEX', key, first, below, 'LIMIT', '0', many)
  if gone[1] then
    redis.call('ZREMRANGEBYLEX', key, first, '[' .. gone[#gone])
  end
end
if ARGV[8] ~= '' then
  trim('(' .. ARGV[1] .. '\0' .. ARGV[8], ARGV[9])
end
local most = tonumber(ARGV[7])
local many = most > 0 and redis.call('ZLEXCOUNT', key, first, last) - most or 0
if many > 0 then
  trim(last, math.min(many, tonumber(ARGV[9])))
end
return {'ok'}
