// tests/web/tap.mjs - the points of a TAP test: each is a function that throws when it fails.
export async function run(points) {
    let failed = 0;
    console.log(`1..${points.length}`);
    for (const [index, [name, work]] of points.entries()) {
        try {
            await work();
            console.log(`ok ${index + 1} - ${name}`);
        } catch (error) {
            failed++;
            console.log(`not ok ${index + 1} - ${name}`);
            String(error.stack).split("\n").forEach((line) => console.log(`# ${line}`));
        }
    }
    return failed === 0 ? 0 : 1;
}
